-- Prefix of every script of webhook deliveries. ARGV: the arguments by name, as one JSON object. A
-- `delivery` is the id of one.
local args = cjson.decode(ARGV[1])

-- Queues of webhook deliveries, all under one hash tag. Each receiver has its own queue, and only
-- the first delivery of a queue competes with others, so a long queue delays no other receiver. A
-- receiver with its maximum of concurrent attempts is not ready, nor is a throttled one.
-- Slow receivers have a priority class with its own slots. Only quick receivers get several
-- concurrent attempts, so a receiver that never answers takes one slot.
-- The next slot goes to the tenant with the fewest attempts under way, however many receivers a
-- tenant has.
local LEASES, ATTEMPTS = 'leases:{deliveries}', 'attempts:{deliveries}'
-- All waiting deliveries by due time; used for the count only.
local WAITING = 'waiting:{deliveries}'
local PRIORITIES = { 'quick', 'slow' }
local MAX_CONCURRENT_IF_QUICK = 5

local function text(number)
  return string.format('%.0f', number)
end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function key_of(delivery)
  return 'delivery:{deliveries}:' .. delivery
end

local function queue_of(receiver)
  return 'queue:{deliveries}:' .. receiver
end

local function busy_of(receiver)
  return 'busy:{deliveries}:' .. receiver
end

local function priority_of(receiver)
  return 'priority:{deliveries}:' .. receiver
end

-- The time from which a throttled receiver is ready.
local function throttled_of(receiver)
  return 'throttled:{deliveries}:' .. receiver
end

-- Tenants with a ready receiver, by the due time of the first.
local function tenants_of(priority)
  return 'tenants:{deliveries}:' .. priority
end

local function ready_of(priority, tenant)
  return 'ready:{deliveries}:' .. priority .. ':' .. tenant
end

local function under_way_of(tenant)
  return 'under:{deliveries}:' .. tenant
end

-- Updates the place of a receiver in the sets of ready receivers and tenants.
local function refresh(receiver, tenant)
  local priority = redis.call('GET', priority_of(receiver))
  local max_concurrent = priority == 'quick' and MAX_CONCURRENT_IF_QUICK or 1
  local first = redis.call('ZRANGE', queue_of(receiver), 0, 0, 'WITHSCORES')
  local throttled = tonumber(redis.call('GET', throttled_of(receiver)) or '0')
  local is_ready = first[1] and redis.call('SCARD', busy_of(receiver)) < max_concurrent
  for _, class in ipairs(PRIORITIES) do
    local ready = ready_of(class, tenant)
    if is_ready and class == (priority == 'slow' and 'slow' or 'quick') then
      redis.call('ZADD', ready, text(math.max(tonumber(first[2]), throttled)), receiver)
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

local function enqueue(delivery, receiver, due)
  local tenant = redis.call('HGET', key_of(delivery), 'tenant')
  redis.call('HSET', key_of(delivery), 'state', 'waiting', 'dueAtMs', text(due), 'lease', '')
  redis.call('ZADD', queue_of(receiver), text(due), delivery)
  redis.call('ZADD', WAITING, text(due), delivery)
  refresh(receiver, tenant)
end

local function release(delivery, receiver)
  local tenant = redis.call('HGET', key_of(delivery), 'tenant')
  redis.call('ZREM', LEASES, delivery)
  redis.call('SREM', busy_of(receiver), delivery)
  redis.call('SREM', under_way_of(tenant), delivery)
  return tenant
end
