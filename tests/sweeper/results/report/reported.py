"""Pages of synthetic sweeps with training curves, logs and failed runs."""

import gzip
import json
import re
from base64 import b64decode

from sweeper.results.figures import svg_of
from sweeper.results.report.data import page_data
from sweeper.results.report.page import as_html, write_report
from sweeper.stages.publish import collect_and_judge
from sweeper.store.runs import RunStore
from tests.sweeper.results.synthetic import Model, Sweep, few, finetuned

# Foreign text that has run as script, markup, style or spreadsheet formula somewhere.
PAYLOADS = (
    "<script>pwned=1</script>",
    "</script><script>pwned=1</script>",
    "</SCRIPT ><img src=x onerror=pwned=1>",
    "<!--<script>",
    "--><script>pwned=1</script>",
    "<img src=x onerror=pwned=1>",
    "<svg onload=pwned=1>",
    "<svg><script>pwned=1</script></svg>",
    "<iframe src=javascript:parent.pwned=1></iframe>",
    "<a href=javascript:pwned=1>click</a>",
    "javascript:pwned=1",
    '"><img src=x onerror=pwned=1>',
    "' onmouseover='pwned=1",
    '" onfocus="pwned=1" autofocus="',
    "`onload=pwned=1`",
    "</style><script>pwned=1</script>",
    "<style>*{display:none}</style>",
    "</title><script>pwned=1</script>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<form action=//evil.example><input autofocus onfocus=pwned=1>",
    "${pwned=1}$data{{pwned}}",
    "__proto__",
    "constructor",
    "&lt;script&gt;pwned=1&lt;/script&gt;",
    "\\u003cscript>pwned=1\\u003c/script>",
    "\u202e<script>pwned=1</script>\u2066",
    "line\u2028end\r\n\x00\x1b[31m<b>",
    "=HYPERLINK(//evil.example)",
)


def page_of(outputs):
    """Write the page of all planned experiments."""
    return write_report(outputs, *collect_and_judge(outputs, None))


def write_sweep(outputs, sweep):
    """Write the sweep; each attempt has 211 rows of metrics and 101 lines of log."""
    sweep.attempts = {run: {} for run in sweep.results}
    sweep.write(outputs)
    rows = [
        {"step": step, "train/loss": 1 + 7 / step, "learning_rate": 0.1}
        for step in range(1, 212)
    ]
    for id in sweep.records:
        log = "".join(f"step {line} of {id}\n" for line in range(101))
        for attempt in RunStore(outputs).run(id).attempts():
            attempt.log_path.write_text(log)
            with attempt.metrics() as metrics:
                for row in rows:
                    metrics.write(row)


def small_sweep(outputs):
    """Write the page of a small Figure 1 with curves, a failed run and a run not started."""

    sweep = few(seeds=2, done=lambda arm, model, seed: model.embedding_size != 96)
    write_sweep(outputs, sweep)
    failed = next(id for id in sweep.records if id not in sweep.results)
    RunStore(outputs).run(failed).claim({}).finish("nan", "the loss is nan at step 7")
    return page_of(outputs)


def fine_tuned(outputs):
    """Write the page of models fine-tuned on two tasks."""
    sweep = finetuned("fig2")
    sweep.table(outputs)
    return page_of(outputs)


def foreign(outputs, words):
    """Write a page with an experiment for each word, put wherever a user can write text.

    Only the first has a figure, because thirty take a minute.
    """
    for place, word in enumerate(words):
        sweep = Sweep(name=word, title=word, metric=f"{word}/{word}", x=word)
        for heads in (2, 3):
            model = Model(64, 2 * place + heads, 32)
            values = {word: word, f"{word}.{word}": heads}
            sweep.add(word, model, [40.0 + heads, None], values)
        for record in sweep.records.values():
            record.config.update({"task": {"name": word}, word: word})
        for result in sweep.results.values():
            result["device"] = word
        write_sweep(outputs, sweep)
        for id in sweep.records:
            run = RunStore(outputs).run(id)
            if id not in sweep.results:
                run.claim({"code": word, "versions": {word: word}}).finish(
                    "crash", word
                )
            log = f"{word}\n".encode("utf-8", "replace")
            run.attempts()[-1].log_path.write_bytes(log)
    tables, verdicts = collect_and_judge(outputs, None)
    figures = {tables[0].name: svg_of(outputs, tables[0])}
    page = outputs / "report.html"
    page.write_text(as_html(page_data(outputs, tables, verdicts), figures))
    return page


def content_of(page):
    """Return the data in the page."""
    text = page.read_text("utf-8")
    found = re.search(r'<script type="text/plain" id="data">(.*?)</script>', text)
    assert found
    return json.loads(gzip.decompress(b64decode(found[1])))
