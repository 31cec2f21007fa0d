"""The outputs folder: formats, atomic writes, attempts and liveness.

    outputs/runs/<id>/
        run.json             the record: id, config, size, names; written once
        micro_batches.json   in how many parts batches are computed, after out of GPU memory
        attempts/0001/       an attempt; only the process that claimed it writes below
            attempt.json     number, folder, process (host, pid, ...), resumed_from, ...
            beat.json        the heartbeat, written over; removed once the run is done
            metrics.jsonl    one row a line, each with a checksum
            log.txt          stdout and stderr of the job
            checkpoints/     step-<n>.ckpt
            exit.json        cause, message, traceback of an attempt without a result
            result.json      its result, once the run is trained again with other code
        start.log            output of a start before its attempt; removed once the run is done
        result.json          of the first attempt that finished: the run is done
        differs-0002.json    of a later attempt that finished with other metrics
    outputs/plans/0001.json  the runs of a sweep, and the points that use them
    outputs/history.jsonl    what was forgotten: its claims, margins, errors and runs
    outputs/code/<digest>/   the code that queued jobs start from

Readers ignore names that begin with a dot and end in `.tmp`: files being written, or left by a
writer that was killed.
"""
