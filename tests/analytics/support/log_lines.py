"""Lines of the logs of web servers."""

from __future__ import annotations

AGENT = "Mozilla/5.0 (X11; Linux x86_64)"
COMMON = '192.0.2.1 - ada [09/Mar/2026:12:00:00 +0000] "GET /jazz HTTP/1.1" 200 512'
COMBINED = f'{COMMON} "https://shop.example/" "{AGENT}"'
