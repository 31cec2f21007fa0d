"""The files of an outputs folder: their formats, atomic writes, attempts and liveness.

    outputs/runs/<id>/
        run.json             the record: id, config, size, names; written when the run is planned
        micro_batches.json   the number of micro-batches; written if the run runs out of GPU memory
        attempts/0001/       an attempt; only the process that claimed it writes here
            attempt.json     number, folder, process (host, pid, ...), resumed_from, ...
            beat.json        the heartbeat, overwritten each time; removed once the run is done
            metrics.jsonl    the logged metrics; each line is a JSON row with a checksum
            log.txt          stdout and stderr of the job
            checkpoints/     step-<n>.ckpt
            exit.json        cause and message of an attempt that ended without a result
            result.json      the former result, moved here when the run is trained again
        start.log            output before the attempt begins; removed once the run is done
        result.json          the result of the first attempt that finished; it marks the run as done
        differs-0002.json    the result of attempt 2, if it finished later with different metrics
    outputs/plans/0001.json  the runs of a sweep, and the points that use them
    outputs/code/<digest>/   a copy of the code, which queued jobs execute
    outputs/history.jsonl    the plans of experiments that the command `forget` removed

Readers ignore files whose names begin with a dot and end in `.tmp`. A process is still writing such
a file, or was killed before it could rename it.
"""
