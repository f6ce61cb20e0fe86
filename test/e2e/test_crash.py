# SPDX-License-Identifier: Apache-2.0
"""
kill -9 while fifteen clients write by every way there is: nothing acknowledged is lost, nothing is
half there, and indexes agree with their documents. THEMIS_CRASH_ROUNDS and THEMIS_CRASH_SEED change
the rounds (20) and the order of events.
"""
import os
import time

from conftest import release_server
from crash import MODELS, SETTINGS, Crash

ROUNDS = int(os.environ.get("THEMIS_CRASH_ROUNDS", 20))
SEED = int(os.environ.get("THEMIS_CRASH_SEED", time.time_ns() % 1000000))


def test_kill_9(start):
    binary = release_server()
    crash = Crash(lambda is_ready: start(MODELS, binary=binary, settings=SETTINGS, is_ready=is_ready), binary, SEED)
    print(f"seed {SEED}")
    server = crash.prepare()
    for number in range(ROUNDS):
        crash.write_and_kill(server, 0.3 + crash.random.random(), waits_for_build=number % 2 == 1)
        for _ in range(number % 3):
            crash.kill_while_it_recovers()
        crash.check_files(server)
        server = crash.start(True)
        crash.verify(server)
    assert crash.acknowledged() > ROUNDS * 50
    assert crash.builds_hit > ROUNDS // 4, "hardly any kill came during an index build"
    server.stop()
