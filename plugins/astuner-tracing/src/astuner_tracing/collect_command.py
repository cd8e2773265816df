"""`astuner trace collect`."""

from __future__ import annotations

from pathlib import Path

import click

EXAMPLE = """\b
Example:
  astuner trace collect --out traces.jsonl --port 4318"""


@click.command(epilog=EXAMPLE)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write; an existing one is appended to.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; any but loopback needs --token.")
@click.option(
    "--port", default=4318, show_default=True, type=click.IntRange(0, 65535), help="The port to listen on; 0 picks a free one."
)
@click.option(
    "--token", envvar="ASTUNER_TRACE_TOKEN", show_envvar=True, help="Require this token, as `Authorization: Bearer TOKEN`."
)
@click.option(
    "--max-body-mb", default=16, show_default=True, type=click.IntRange(min=1), help="Largest request, after decompression."
)
@click.option(
    "--rotate-mb",
    default=256,
    show_default=True,
    type=click.IntRange(min=0),
    help="Start a new file at this size; 0 means never.",
)
@click.option("--sync-s", default=1.0, show_default=True, type=click.FloatRange(min=0), help="Seconds between syncs to the disk.")
def collect(out: Path, host: str, port: int, token: str | None, max_body_mb: int, rotate_mb: int, sync_s: float) -> int:
    """Receive OTLP traces (POST /v1/traces) and feedback (POST /v1/feedback) until Ctrl-C."""
    from astuner_tracing.collector.serving import Collector

    def print_start(address: str) -> None:
        click.echo(f"collecting into {out}: traces at {address}/v1/traces, feedback at {address}/v1/feedback", err=True)

    collector = Collector(
        out=out,
        host=host,
        port=port,
        token=token or None,
        max_body_bytes=max_body_mb << 20,
        rotate_bytes=rotate_mb << 20 or None,
        sync_s=max(sync_s, 0.01),
    )
    collected = collector.serve(print_start)
    rejected = f", {collected.rejected} spans rejected" if collected.rejected else ""
    pieces = "1 piece" if collected.feedback == 1 else f"{collected.feedback} pieces"
    click.echo(f"collected {collected.spans} spans and {pieces} of feedback{rejected} in {out}", err=True)
    return 0
