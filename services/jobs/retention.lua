-- How long Redis keeps the state of a job, and what an idempotency key holds.

-- A closed job is in ClickHouse, and so is its data key once ledger has copied it. Record and key
-- stay in Redis for services that still process messages of the job.
local CLOSED_JOB_TTL_MS = 600000
local DATA_KEY_TTL_MS = 7862400000
-- Of the data key of a claim, which outlives almost every job; one that runs for longer has its key
-- restored from the topic job.keys.
local CLAIMED_KEY_TTL_MS = 90000000
-- Counted from the first use of an idempotency key.
local IDEMPOTENCY_KEY_TTL_MS = 86400000

-- The value of an idempotency key: the job id and the fingerprint of the request, as bytes. That is
-- 43 bytes; Redis embeds strings of up to 44. The rest of the claim is in the record of the job.
local function binding_of(job, fingerprint)
  local bytes = fingerprint:gsub('%x%x', function (pair)
    return string.char(tonumber(pair, 16))
  end)
  return job:gsub('^job_', '') .. ':' .. bytes
end

local function job_of(binding)
  return 'job_' .. binding:match('^[^:]*')
end

-- The job that an idempotency key is bound to; nil for a free key.
local function bound_job(key)
  local binding = redis.call('GET', key)
  return binding and job_of(binding)
end
