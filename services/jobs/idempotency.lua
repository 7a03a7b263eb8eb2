-- Idempotency keys. A tenant has two hashes from key to binding, for keys that were first used on
-- even and on odd days (UTC). A hash expires as a whole when the last of its bindings has ended,
-- which takes a third of the memory of a Redis key for each.

local DAY_MS = 86400000
-- Counted from the first use of an idempotency key.
local IDEMPOTENCY_KEY_TTL_MS = DAY_MS

-- Pairs of hexadecimal digits as bytes, which take half the memory.
local function packed_hex(hex)
  local bytes = hex:gsub('%x%x', function (pair)
    return string.char(tonumber(pair, 16))
  end)
  return bytes
end

-- The field of a key in its hash: a UUID as 16 bytes. So does toIdempotencyField in job-record.ts.
local function field_of(key)
  return packed_hex((key:gsub('-', '')))
end

-- The job id and the fingerprint of a request.
local function request_of(job, fingerprint)
  return job:gsub('^job_', '') .. ':' .. packed_hex(fingerprint)
end

-- A binding is the time of its end in ms (6 bytes), and the request. The rest of the claim is in
-- the record of the job.
local function binding_of(request, ends_at)
  return struct.pack('>I6', ends_at) .. request
end

local function bound_request(binding)
  return binding:sub(7)
end

local function bound_job(binding)
  return 'job_' .. bound_request(binding):match('^[^:]*')
end

-- The binding in one hash; nil if it has none there, or an ended one.
local function binding_in(hash, field, now)
  local binding = redis.call('HGET', hash, field)
  return binding and now < struct.unpack('>I6', binding) and binding or nil
end

-- Binds a free key to a request. Returns the binding of one that is not free. The expiry of the
-- hash is set each time: a script that begins just before midnight still finds the hash of two days
-- ago, and the new binding must not expire with it. A claim of the past passes 'NX', so that it
-- never makes a hash expire earlier.
local function bind(hashes, key, request, at, ...)
  local day = math.floor(at / DAY_MS)
  local hash, other = hashes[day % 2 + 1], hashes[(day + 1) % 2 + 1]
  local field = field_of(key)
  local found = binding_in(other, field, at)
  if found then
    return found
  end
  local binding = binding_of(request, at + IDEMPOTENCY_KEY_TTL_MS)
  if redis.call('HSETNX', hash, field, binding) == 0 then
    found = binding_in(hash, field, at)
    if found then
      return found
    end
    redis.call('HSET', hash, field, binding)
  end
  redis.call('PEXPIREAT', hash, string.format('%.0f', (day + 2) * DAY_MS), ...)
end

-- Binds a key to a request, whatever it was bound to.
local function rebind(hashes, key, request, at, ...)
  for _, hash in ipairs(hashes) do
    redis.call('HDEL', hash, field_of(key))
  end
  bind(hashes, key, request, at, ...)
end

-- Releases the key of a job, if it has one that is not bound to another job.
local function release(hashes, key, job, now)
  for _, hash in ipairs(key ~= '' and hashes or {}) do
    local binding = binding_in(hash, field_of(key), now)
    if binding and bound_job(binding) == job then
      redis.call('HDEL', hash, field_of(key))
    end
  end
end
