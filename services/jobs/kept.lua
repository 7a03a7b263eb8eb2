-- For how long Redis keeps what it has of a job, and what a job keeps of its idempotency key.

-- From its close on everything of a job is in ClickHouse, its data key as soon as ledger has copied
-- it; the record and the key stay in Redis for whoever still works on the job.
local CLOSED_KEPT_MS = 600000
local DATA_KEY_KEPT_MS = 7862400000
-- An idempotency key is bound to its job from the first use on.
local KEY_BOUND_MS = 86400000

-- What an idempotency key holds: its job and, as bytes, the fingerprint of its request; 43 bytes,
-- as Redis stores up to 44 in one piece. Everything else of the claim is in the record of the job.
local function binding_of(job, fingerprint)
  local bytes = fingerprint:gsub('%x%x', function (pair)
    return string.char(tonumber(pair, 16))
  end)
  return job:gsub('^job_', '') .. ':' .. bytes
end

local function job_of(binding)
  return 'job_' .. binding:match('^[^:]*')
end

-- The job an idempotency key is bound to; nothing of a key that is free.
local function bound_job(key)
  local binding = redis.call('GET', key)
  return binding and job_of(binding)
end
