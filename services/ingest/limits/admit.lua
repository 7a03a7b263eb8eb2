-- A request that starts a preflight: one of the tenant's places along with the tokens.
-- KEYS: buckets, places, idem. ARGV: request id, idempotency key or '', number of places, ms after
-- which a place is free again, capacity and seconds of each bucket.
local request, key = ARGV[1], ARGV[2]
local places, kept_ms = tonumber(ARGV[3]), tonumber(ARGV[4])

-- A repetition of a request waits for the first one's job and starts none.
local function is_claimed(now_ms)
  if key == '' then
    return false
  end
  local held = redis.call('HMGET', KEYS[3], 'job', 'accepted', 'acceptBy')
  return held[1] and (held[2] == '1' or now_ms < tonumber(held[3]))
end

-- A place is named by its key, if it has one, and its request. Repetitions that come before the
-- claim share the place of the first one: only one of them can become a job.
local function find_place(now_ms)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now_ms))
  local held = redis.call('ZRANGE', KEYS[2], 0, -1)
  for _, place in ipairs(held) do
    if key ~= '' and string.sub(place, 1, #key + 1) == key .. ' ' then
      return 'admitted'
    end
  end
  if #held >= places then
    return 'crowded'
  end
  redis.call('ZADD', KEYS[2], string.format('%.0f', now_ms + kept_ms), key .. ' ' .. request)
  redis.call('PEXPIRE', KEYS[2], kept_ms)
  return 'placed'
end

local now = now_micros()
local buckets = buckets_from(5)
if not take_one(KEYS[1], now, buckets) then
  return answer('throttled', buckets)
end
local now_ms = math.floor(now / 1000)
return answer(is_claimed(now_ms) and 'admitted' or find_place(now_ms), buckets)
