-- Joined behind common.lua: see deliveries.ts.
-- KEYS: leases. Arguments: priority, limit, leaseMs, token, tenantSlots (the maximum of concurrent
-- attempts of a tenant).
-- Claims due deliveries. First it requeues deliveries whose lease has expired with their process.
local priority, limit, token = args.priority, tonumber(args.limit), args.token
local tenant_slots = tonumber(args.tenantSlots)
local now = now_ms()
local MAX_EXPIRED = 100
-- Enough to choose from: later tenants follow once these have more attempts under way.
local MAX_TENANTS = 100

for _, delivery in ipairs(
  redis.call('ZRANGEBYSCORE', LEASES, '-inf', text(now), 'LIMIT', 0, MAX_EXPIRED)) do
  local receiver = redis.call('HGET', key_of(delivery), 'receiver')
  redis.call('ZREM', LEASES, delivery)
  if receiver then
    release(delivery, receiver)
    enqueue(delivery, receiver, now)
  end
end

-- Tenants with a due delivery and a free slot, the longest waiting first.
local candidates = {}
for _, tenant in ipairs(redis.call(
  'ZRANGEBYSCORE', tenants_of(priority), '-inf', text(now), 'LIMIT', 0, MAX_TENANTS)) do
  local under_way = redis.call('SCARD', under_way_of(tenant))
  if under_way < tenant_slots then
    candidates[#candidates + 1] = { tenant = tenant, under_way = under_way }
  end
end

local function fewest()
  local chosen
  for index, candidate in ipairs(candidates) do
    if not chosen or candidate.under_way < candidates[chosen].under_way then
      chosen = index
    end
  end
  return chosen
end

local function take(receiver, tenant)
  local delivery = redis.call('ZRANGE', queue_of(receiver), 0, 0)[1]
  redis.call('ZREM', queue_of(receiver), delivery)
  redis.call('ZREM', WAITING, delivery)
  local found = redis.call('HMGET', key_of(delivery), 'tenant', 'job', 'type', 'attempts', 'once',
    'trace')
  if found[1] then
    redis.call('SADD', busy_of(receiver), delivery)
    redis.call('SADD', under_way_of(tenant), delivery)
    redis.call('ZADD', LEASES, text(now + tonumber(args.leaseMs)), delivery)
    redis.call('HSET', key_of(delivery), 'state', 'trying', 'lease', token)
  end
  refresh(receiver, tenant)
  return found[1] and
    { delivery, found[1], found[2], found[3], found[4], found[5], found[6] or '' }
end

local claimed = {}
while #claimed < limit and #candidates > 0 do
  local index = fewest()
  local candidate = candidates[index]
  local receiver = redis.call('ZRANGEBYSCORE', ready_of(priority, candidate.tenant), '-inf',
    text(now), 'LIMIT', 0, 1)[1]
  local claim = receiver and take(receiver, candidate.tenant)
  if claim then
    claimed[#claimed + 1] = claim
    candidate.under_way = candidate.under_way + 1
  end
  if not receiver or candidate.under_way >= tenant_slots then
    table.remove(candidates, index)
  end
end
return claimed
