def listing(c, n):
    return "listing"


def explanation(c, n):
    return "explanation"


def statistics(c, n):
    return "statistics"


def status(c):
    return "status"


def after_cell(c, o):
    return [str(o)]
