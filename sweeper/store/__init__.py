"""What runs and plans are on disk: formats, atomic writes, attempts and liveness.

    outputs/runs/<id>/
        run.json             the record: id, config, size, names; written once, never changed
        micro_batches.json   in how many parts batches are worked off; only after out of GPU memory
        attempts/0001/       one try at the run; only the process that claimed it writes below
            attempt.json     number, process (host, pid, ...), resumed_from, what the caller added
            beat.json        counter and progress, written over: a hint, gone once the run is done
            metrics.jsonl    one row a line, each with a checksum
            log.txt          stdout and stderr of the job
            checkpoints/     step-<n>.ckpt
            exit.json        cause, message, traceback; result.json says it of the one that finished
        start.log            what a start said before its attempt; gone once the run is done
        result.json          from the first attempt that finished: the run is done
        differs-0002.json    a later finisher whose metrics were not the same
    outputs/plans/0001.json  the runs of a sweep and which points use them
    outputs/archives/        finished runs, many in a file, instead of in folders of their own
    outputs/code/<digest>/   the code that queued jobs start from

Names that begin with a dot and end in `.tmp` are being written, or a killed writer left them; no
reader looks at them.
"""
