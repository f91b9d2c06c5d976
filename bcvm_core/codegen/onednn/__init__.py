"""Convolutions by oneDNN, where one of its libraries is installed: found, bound by ctypes, apart from everybody else's use of it."""
