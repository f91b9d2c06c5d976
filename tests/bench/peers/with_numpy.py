"""NumPy, op by op."""

import worker

worker.serve(worker.Peer())
