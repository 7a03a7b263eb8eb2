"""Runs one job with the generated client and prints what a test compares, as JSON."""

import hashlib
import hmac
import json
import os
import time
import uuid

import verification_jobs as vj


WEBHOOK = os.environ["WEBHOOK_BODY"]


def is_genuine(body):
    """Whether the body has the signature t=...,v1=... by the secret, and is recent."""
    parts = dict(part.split("=", 1) for part in os.environ["WEBHOOK_SIGNATURE"].split(","))
    signed = f"{parts['t']}.{body}".encode()
    expected = hmac.new(os.environ["WEBHOOK_SECRET"].encode(), signed, hashlib.sha256).hexdigest()
    is_recent = abs(time.time() - int(parts["t"])) <= 300
    return is_recent and hmac.compare_digest(expected, parts["v1"])


configuration = vj.Configuration(host=os.environ["HOST"], access_token=os.environ["KEY"])
with vj.ApiClient(configuration) as client:
    jobs = vj.JobsApi(client)
    request = vj.JobRequest(
        service="phone-validation",
        inputs=[
            vj.JobInput("+12127365000"),
            vj.JobInput(vj.InputWithId(input="(212) 736-5000", id="customer-17")),
            vj.JobInput("call me"),
        ],
        country_code="US",
        force_fresh=True,
        metadata={"language": "python"},
    )
    key = uuid.uuid4()
    created = jobs.create_job(request, idempotency_key=key)
    repeated = jobs.create_job(request, idempotency_key=key)
    job = jobs.get_job(created.id)
    while job.status not in ("completed", "cancelled", "failed"):
        time.sleep(0.05)
        job = jobs.get_job(created.id)
    listed = jobs.list_jobs(limit=1)
    page = jobs.get_results(created.id, limit=2)
    csv = jobs.get_results_without_preload_content(created.id, _headers={"Accept": "text/csv"})
    balance = vj.AccountApi(client).get_balance()
    try:
        jobs.get_job("job_unknown")
        refused = None
    except vj.exceptions.NotFoundException as error:
        refused = error.data.error.code
    print(json.dumps({
        "id": created.id,
        "repeated": repeated.id,
        "maxQuoteMicros": created.preflight.max_quote_micros,
        "status": job.status,
        "chargedMicros": job.charged_micros,
        "metadata": job.metadata,
        "listed": listed.data[0].id,
        "rows": [[row.row, row.status, row.e164, row.id] for row in page.data],
        "hasMore": page.has_more,
        "csv": csv.data.decode().splitlines()[0],
        "currency": balance.currency,
        "refused": refused,
        "webhooks": [is_genuine(body) for body in (WEBHOOK, WEBHOOK + " ")],
    }))
