"""What people decide and operators account for: `Engine.governance`. Read `facade.Governance` first.

`corrections` and access are what people decide; `audit` is who changed what, `receipts` and `deletion` (with `scan`)
are deletions that can be proved, `quotas` what tenants may have, `webhooks` who is told; `sections` is what an export
has beside documents. `host.Host` is what they need of an engine. Imported by doors; imports anything below `engine`.
"""
