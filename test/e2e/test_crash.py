# SPDX-License-Identifier: Apache-2.0
"""
kill -9 while sixteen clients write by every way there is: nothing acknowledged is lost, nothing is
half there, indexes agree with their documents, and backups made meanwhile can be restored. THEMIS_CRASH_ROUNDS and THEMIS_CRASH_SEED change
the rounds (20) and the order of events.
"""
import os
import time

from conftest import release_server
from crash import MODELS, SETTINGS, Crash

ROUNDS = int(os.environ.get("THEMIS_CRASH_ROUNDS", 20))
RESTORE_EVERY = 5
SEED = int(os.environ.get("THEMIS_CRASH_SEED", time.time_ns() % 1000000))


def test_kill_9(start):
    binary = release_server()
    crash = Crash(lambda is_ready, data="data": start(MODELS, binary=binary, settings=SETTINGS, is_ready=is_ready,
                                                      data=data), binary, SEED)
    print(f"seed {SEED}")
    server = crash.prepare()
    for number in range(ROUNDS):
        crash.write_and_kill(server, 0.3 + crash.random.random(), waits_for_build=number % 2 == 1)
        for _ in range(number % 3):
            crash.kill_while_it_recovers()
        crash.check_files(server.data)
        server = crash.start(True)
        crash.verify(server)
        if number % RESTORE_EVERY == RESTORE_EVERY - 1:
            crash.restore(server)
        print(f"round {number + 1}: {crash.acknowledged()} writes acknowledged, {crash.restored} backups restored",
              flush=True)
    assert crash.acknowledged() > ROUNDS * 50
    assert crash.restored >= ROUNDS // RESTORE_EVERY // 2, "hardly any backup"
    assert crash.builds_hit > ROUNDS // 4, "hardly any kill came during an index build"
    server.stop()
