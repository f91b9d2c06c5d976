"""Floor 3, the front end: from Python source to annotated syntax trees and Programs."""
