"""Preemption of whole gangs: who makes room, how a job is suspended for it and resumed."""
