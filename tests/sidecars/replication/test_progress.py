"""How far a standby has got, and when that is news for its primary."""

from sidecars.replication.standby.progress import Progress


def news(progress: Progress) -> bool:
    told = progress.changed.is_set()
    progress.changed.clear()
    return told


def test_a_primary_is_told_when_a_message_is_written_and_not_when_it_arrives() -> None:
    progress = Progress(applied=4, behind=False)
    one, two = progress.arrive(100, 2)
    progress.complete(6)
    assert not news(progress)
    progress.done(two)
    assert not news(progress)
    progress.done(one)
    assert (news(progress), progress.applied, progress.taken) == (True, 6, 100)


def test_room_what_waits_and_the_end_of_a_sync_are_news_too() -> None:
    progress = Progress(applied=0, behind=True)
    (retried,) = progress.arrive(10, 1)
    progress.release_room(retried)
    assert (news(progress), progress.taken) == (True, 10)
    (held,) = progress.arrive(20, 1)
    progress.park(held)
    assert (news(progress), progress.taken) == (True, 30)
    progress.sync(0)
    progress.done(retried)
    assert (news(progress), progress.is_behind) == (True, False)
    progress.done(held)
    assert news(progress)
