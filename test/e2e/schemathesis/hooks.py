"""What the description of the interface cannot say, so that every check may stay on."""

import schemathesis

# No schema says which names are public, so texts of the right type are refused as addresses.
# A key stands for one request, so the same key with another body is refused.
CODES = {"invalid_webhook_url", "idempotency_key_reused"}
# Parameters of a query cannot depend on each other in a description: these are for one form of
# the results alone, and a cursor is taken only as it came.
OF_ONE_FORM = {"limit", "cursor", "status", "source", "safe", "join"}
# No schema says which texts are a time between which years.
TIMES = {
    "GET /api/v1/jobs": {"created_from", "created_to"},
    "GET /api/v1/usage": {"from", "to"},
}
# No schema says which texts are a CSV file, or which columns it has.
TAKE_FILES = {"POST /api/v1/jobs", "POST /api/v1/quotes"}
FILES = {"text/csv", "multipart/form-data"}
OF_FILES = {("invalid_file", None), ("invalid_file", "file"), ("invalid_request", "column")}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drops complaints for these reasons alone."""
    kind = type(failure).__name__
    if kind == "AcceptedNegativeData" and case.operation.label in TAKE_FILES:
        return not is_of_unread_options(case)
    if kind != "RejectedPositiveData":
        return True
    error = response.json()["error"]
    label, code, param = case.operation.label, error["code"], error.get("param")
    if label in TAKE_FILES and case.media_type in FILES and (code, param) in OF_FILES:
        return False
    if label in TIMES:
        return not (code == "invalid_request" and param in TIMES[label])
    if label == "GET /api/v1/jobs/{id}/results":
        # One of the other operations erases the job.
        is_erased = response.status_code == 410 and code == "results_erased"
        return not (is_erased or (code == "invalid_request" and param in OF_ONE_FORM))
    return code not in CODES


def is_of_unread_options(case):
    """The options of a file in the query are read with text/csv alone: nothing else may be wrong."""
    wrong = {place.value for place, part in case.meta.components.items() if part.mode.is_negative}
    return case.media_type not in FILES and wrong == {"query"}
