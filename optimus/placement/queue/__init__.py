"""The queue of waiting gangs: their order, which of them is planned, and which nodes they keep."""
