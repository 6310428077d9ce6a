"""Long runs of both processes while users and administrators change everything:
``python -m tests.churn --minutes 60 --cluster real``.

Light training jobs of both kinds come, end, fail and are deleted; users change bounds and goals,
suspend, resume, pause and apply their old manifests again; nodes are cordoned, drained and come
back; with ``--kill-every`` one of the two processes is killed, -9, now and then. Each second every
invariant of ``tests.churn.invariants`` is checked.
"""
