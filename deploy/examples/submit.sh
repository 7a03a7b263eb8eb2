#!/bin/sh
# Creates a job, waits for its end and downloads the results, with curl only:
#   sh deploy/examples/submit.sh
# With the local stack of "npm run up" nothing else is needed; elsewhere set VERIFICATION_JOBS_URL
# (ends in /api/v1) and VERIFICATION_JOBS_KEY. The results are written to $1, or to results.csv.
set -eu

output=${1:-results.csv}
stack=${STACK_FILE:-.local/stack.json}

field () { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$2" | head -n 1; }
url=${VERIFICATION_JOBS_URL:-$(field baseUrl "$stack")}
key=${VERIFICATION_JOBS_KEY:-$(field live "$stack")}

# Other users of the machine can see command lines, so the key is passed in a file.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(umask 077; printf 'Authorization: Bearer %s\n' "$key" > "$folder/headers")

# Retries requests that are rejected temporarily, after the time in Retry-After.
ask () { curl --silent --show-error --fail-with-body --retry 5 --header "@$folder/headers" "$@"; }

# One key for all attempts: the job is created and paid once, however often it is sent.
if command -v uuidgen > /dev/null; then request=$(uuidgen); else
  request=$(cat /proc/sys/kernel/random/uuid)
fi
ask "$url/jobs" \
  --header 'Content-Type: application/json' \
  --header "Idempotency-Key: $request" \
  --data '{
    "service": "phone-validation",
    "countryCode": "US",
    "inputs": ["+12127365000", "(212) 736-5000", "+44 20 7946 0958", "call me"]
  }' > "$folder/accepted"
job=$(grep -o 'job_[0-9a-z]*' "$folder/accepted" | head -n 1)
echo "accepted: $job"

while true; do
  ask "$url/jobs/$job" > "$folder/job"
  status=$(sed 's/.*"status":"\([a-z]*\)".*/\1/' "$folder/job")
  echo "status: $status"
  case $status in completed | cancelled | failed) break ;; esac
  sleep 1
done

ask "$url/jobs/$job/results" --output "$output"
echo "results: $output"
[ "$status" = completed ]
