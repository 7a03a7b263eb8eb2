-- Token buckets of one request: levels in the fields 1, 2, ... of one hash, and in `at` the time
-- (microseconds) of their last fill.

-- A clock set back by less than this fills nothing until it reaches its old time. After a greater
-- step the old time was wrong: filling starts at the new time, so that no client waits for the old.
local STEP_BACK_MICROS = 60000000
-- Buckets expire this time after they are full; a missing bucket is full.
local KEPT_FULL_MS = 60000

-- Parses pairs of capacity and seconds from an index of ARGV to its end.
local function buckets_from(first)
  local buckets = {}
  for index = first, #ARGV, 2 do
    local capacity, seconds = tonumber(ARGV[index]), tonumber(ARGV[index + 1])
    buckets[#buckets + 1] = {
      capacity = capacity, seconds = seconds, per_micro = capacity / (seconds * 1000000),
    }
  end
  return buckets
end

local function fill(key, now, buckets)
  local names = { 'at' }
  for number in ipairs(buckets) do
    names[number + 1] = tostring(number)
  end
  local stored = redis.call('HMGET', key, unpack(names))
  local at = stored[1] and tonumber(stored[1]) or now
  if at - now > STEP_BACK_MICROS then
    at = now
  end
  local elapsed = math.max(now - at, 0)
  for number, bucket in ipairs(buckets) do
    local level = stored[number + 1] and tonumber(stored[number + 1]) or bucket.capacity
    bucket.level = math.min(level + elapsed * bucket.per_micro, bucket.capacity)
  end
  return math.max(at, now)
end

local function write(key, times, buckets)
  local longest = 0
  local fields = { 'at', string.format('%.0f', times.at) }
  for number, bucket in ipairs(buckets) do
    longest = math.max(longest, bucket.seconds)
    fields[#fields + 1] = tostring(number)
    fields[#fields + 1] = string.format('%.17g', bucket.level)
  end
  redis.call('HSET', key, unpack(fields))
  local until_full_ms = longest * 1000 + math.ceil((times.at - times.now) / 1000)
  redis.call('PEXPIRE', key, string.format('%.0f', until_full_ms + KEPT_FULL_MS))
end

-- Takes one token from every bucket or, if one of them is empty, from none. Returns whether it
-- took, and sets the level of each bucket.
local function take_one(key, now, buckets)
  local at = fill(key, now, buckets)
  local enough = true
  for _, bucket in ipairs(buckets) do
    enough = enough and bucket.level >= 1
  end
  for _, bucket in ipairs(enough and buckets or {}) do
    bucket.level = bucket.level - 1
  end
  write(key, { at = at, now = now }, buckets)
  return enough
end

-- The result of a request, then the level of every bucket.
local function answer(kind, buckets)
  local reply = { kind }
  for _, bucket in ipairs(buckets) do
    reply[#reply + 1] = string.format('%.17g', bucket.level)
  end
  return reply
end
