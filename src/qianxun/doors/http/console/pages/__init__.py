"""The pages: each is a module with its ``PAGE`` and ``router``; `qianxun.doors.http.console.routes` lists them."""
