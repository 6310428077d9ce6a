"""What the record of a job keeps of what it received."""

from optimus.lifecycle import JobRecord, received_until, service_began, service_ended


def test_what_a_job_received_is_divided_among_its_workers_kinds_of_nodes() -> None:
    record = service_began(JobRecord(), 100.0, {"old": 1, "new": 3})
    assert received_until(record, 140.0).by_kind == {"old": 10.0, "new": 30.0}
    record = service_ended(record, 140.0)
    assert received_until(record, 1000.0).seconds == 40.0
    record = service_began(record, 200.0, {"new": 2})
    received = received_until(record, 210.0)
    assert (received.seconds, received.by_kind) == (50.0, {"old": 10.0, "new": 40.0})
    assert record.began_at == 100.0


def test_a_job_that_holds_nothing_receives_nothing() -> None:
    assert received_until(JobRecord(), 100.0).seconds == 0.0
    assert service_ended(JobRecord(), 100.0) == JobRecord()
