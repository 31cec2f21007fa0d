"""The outputs folder: formats, atomic writes, attempts and liveness.

    outputs/runs/<id>/
        run.json             the record: id, config, size, names; written once
        micro_batches.json   the number of parts of a batch; written after out of GPU memory
        attempts/0001/       an attempt; only the process that claimed it writes into the folder
            attempt.json     number, folder, process (host, pid, ...), resumed_from, ...
            beat.json        the heartbeat, overwritten each time; removed once the run is done
            metrics.jsonl    one row a line, each with a checksum
            log.txt          stdout and stderr of the job
            checkpoints/     step-<n>.ckpt
            exit.json        cause, message and traceback, if the attempt had no result
            result.json      moved here when the run is trained again with other code
        start.log            output of a job before its attempt; removed once the run is done
        result.json          the result of the first attempt that finished: the run is done
        differs-0002.json    the result of attempt 2, which finished later with other metrics
    outputs/plans/0001.json  the runs of a sweep, and the points that use them
    outputs/code/<digest>/   a copy of the code; queued jobs start from it
    outputs/history.jsonl    what was forgotten: its claims, margins, errors and runs

Readers ignore names that begin with a dot and end in `.tmp`. These are files that are still being
written, or that a killed process left.
"""
