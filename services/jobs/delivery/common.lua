-- Deliveries that are due, all under one hash tag. Each receiver has a queue of its own, and only
-- its first delivery competes with those of others, so however much waits for one receiver, nobody
-- else waits for it. A receiver that has as many attempts under way as it may is not ready at all.
-- Receivers that took long lately are in a class of their own, with places of their own. Only those
-- that were quick lately get several attempts at once: so whoever never answers takes one place.
-- The receivers of a tenant compete among themselves first, so however many one tenant has, the
-- next place is for the tenant that has the fewest.
local LEASES, ATTEMPTS = 'leases:{deliveries}', 'attempts:{deliveries}'
-- All that wait, whoever for, by when they are due: only counted.
local WAITING = 'waiting:{deliveries}'
local PACES = { 'quick', 'slow' }
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

-- Tenants that have a receiver ready, by when the first of those is due.
local function tenants_of(pace)
  return 'tenants:{deliveries}:' .. pace
end

local function ready_of(pace, tenant)
  return 'ready:{deliveries}:' .. pace .. ':' .. tenant
end

local function under_way_of(tenant)
  return 'under:{deliveries}:' .. tenant
end

-- Puts a receiver where its first delivery and its attempts under way say it belongs.
local function refresh(receiver, tenant)
  local pace = redis.call('GET', pace_of(receiver))
  local at_once = pace == 'quick' and AT_ONCE_IF_QUICK or 1
  local first = redis.call('ZRANGE', queue_of(receiver), 0, 0, 'WITHSCORES')
  local is_ready = first[1] and redis.call('SCARD', busy_of(receiver)) < at_once
  for _, class in ipairs(PACES) do
    local ready = ready_of(class, tenant)
    if is_ready and class == (pace == 'slow' and 'slow' or 'quick') then
      redis.call('ZADD', ready, first[2], receiver)
    else
      redis.call('ZREM', ready, receiver)
    end
    local soonest = redis.call('ZRANGE', ready, 0, 0, 'WITHSCORES')
    if soonest[1] then
      redis.call('ZADD', tenants_of(class), soonest[2], tenant)
    else
      redis.call('ZREM', tenants_of(class), tenant)
    end
  end
end

local function enqueue(event, receiver, due)
  local tenant = redis.call('HGET', delivery_of(event), 'tenant')
  redis.call('HSET', delivery_of(event), 'state', 'waiting', 'dueAtMs', text(due), 'lease', '')
  redis.call('ZADD', queue_of(receiver), text(due), event)
  redis.call('ZADD', WAITING, text(due), event)
  refresh(receiver, tenant)
end

local function let_go(event, receiver)
  local tenant = redis.call('HGET', delivery_of(event), 'tenant')
  redis.call('ZREM', LEASES, event)
  redis.call('SREM', busy_of(receiver), event)
  redis.call('SREM', under_way_of(tenant), event)
  return tenant
end
