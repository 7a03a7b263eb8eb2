-- Deliveries that are due, all under one hash tag. Each receiver has a queue of its own, and only
-- its first delivery competes with those of others, so however much waits for one receiver, nobody
-- else waits for it. A receiver that has as many attempts under way as it may is not ready at all.
-- Receivers that took long lately are in a class of their own, with places of their own. Only those
-- that were quick lately get several attempts at once: so whoever never answers takes one place.
local LEASES, ATTEMPTS = 'leases:{deliveries}', 'attempts:{deliveries}'
-- All that wait, whoever for, by when they are due: only counted.
local WAITING = 'waiting:{deliveries}'
local READY = { quick = 'ready:{deliveries}:quick', slow = 'ready:{deliveries}:slow' }
local AT_ONCE_IF_QUICK = 5

local function text(number)
  return string.format('%.0f', number)
end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function delivery_of(event)
  return 'delivery:{deliveries}:' .. event
end

local function queue_of(receiver)
  return 'queue:{deliveries}:' .. receiver
end

local function busy_of(receiver)
  return 'busy:{deliveries}:' .. receiver
end

local function pace_of(receiver)
  return 'pace:{deliveries}:' .. receiver
end

-- Puts a receiver where its first delivery and its attempts under way say it belongs.
local function refresh(receiver)
  local pace = redis.call('GET', pace_of(receiver))
  local at_once = pace == 'quick' and AT_ONCE_IF_QUICK or 1
  redis.call('ZREM', READY.quick, receiver)
  redis.call('ZREM', READY.slow, receiver)
  local first = redis.call('ZRANGE', queue_of(receiver), 0, 0, 'WITHSCORES')
  if first[1] and redis.call('SCARD', busy_of(receiver)) < at_once then
    redis.call('ZADD', pace == 'slow' and READY.slow or READY.quick, first[2], receiver)
  end
end

local function enqueue(event, receiver, due)
  redis.call('HSET', delivery_of(event), 'state', 'waiting', 'dueAtMs', text(due), 'lease', '')
  redis.call('ZADD', queue_of(receiver), text(due), event)
  redis.call('ZADD', WAITING, text(due), event)
  refresh(receiver)
end

local function let_go(event, receiver)
  redis.call('ZREM', LEASES, event)
  redis.call('SREM', busy_of(receiver), event)
end
