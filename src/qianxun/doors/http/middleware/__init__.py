"""What surrounds the routes, from the outside in: `connection` (bounds on bytes that are not a request yet), `tracing`
(trace id, metrics, span and log line of every request), `guard` (keys, tenants, body size; read this first).

`metrics` counts for Prometheus, `spans` exports to OpenTelemetry, `log_lines` writes the log as JSON, `trace_ids` holds
the trace of the current request. `qianxun.doors.http.app` puts them together; routes see none of them but `metrics`,
whose ``AnswerTime`` they report.
"""
