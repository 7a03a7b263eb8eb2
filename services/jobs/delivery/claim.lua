-- KEYS: leases. ARGV: pace, at most so many, lease ms, token, at most so many of a tenant under
-- way. Takes deliveries that are due, those first whose lease ran out because whoever had them is
-- gone.
local pace, most, token, most_of_tenant = ARGV[1], tonumber(ARGV[2]), ARGV[4], tonumber(ARGV[5])
local now = now_ms()
local EXPIRED_AT_ONCE = 100
-- Enough to choose from; those behind have their turn once these have more under way.
local TENANTS_AT_ONCE = 100
-- Where former versions kept the receivers that are ready, of all tenants together.
local FORMERLY_READY = { 'ready:{deliveries}:quick', 'ready:{deliveries}:slow' }

for _, event in ipairs(
  redis.call('ZRANGEBYSCORE', LEASES, '-inf', text(now), 'LIMIT', 0, EXPIRED_AT_ONCE)) do
  local receiver = redis.call('HGET', delivery_of(event), 'receiver')
  redis.call('ZREM', LEASES, event)
  if receiver then
    let_go(event, receiver)
    enqueue(event, receiver, now)
  end
end

for _, former in ipairs(FORMERLY_READY) do
  for _, receiver in ipairs(redis.call('ZRANGE', former, 0, EXPIRED_AT_ONCE - 1)) do
    redis.call('ZREM', former, receiver)
    local event = redis.call('ZRANGE', queue_of(receiver), 0, 0)[1]
    local tenant = event and redis.call('HGET', delivery_of(event), 'tenant')
    if tenant then
      refresh(receiver, tenant)
    end
  end
end

-- Tenants that have something due, with their attempts under way; those that wait longest come
-- first, and so do those of equals.
local candidates = {}
for _, tenant in ipairs(redis.call(
  'ZRANGEBYSCORE', tenants_of(pace), '-inf', text(now), 'LIMIT', 0, TENANTS_AT_ONCE)) do
  local under_way = redis.call('SCARD', under_way_of(tenant))
  if under_way < most_of_tenant then
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
  local event = redis.call('ZRANGE', queue_of(receiver), 0, 0)[1]
  redis.call('ZREM', queue_of(receiver), event)
  redis.call('ZREM', WAITING, event)
  local found = redis.call('HMGET', delivery_of(event), 'tenant', 'job', 'type', 'attempts', 'once',
    'trace')
  if found[1] then
    redis.call('SADD', busy_of(receiver), event)
    redis.call('SADD', under_way_of(tenant), event)
    redis.call('ZADD', LEASES, text(now + tonumber(ARGV[3])), event)
    redis.call('HSET', delivery_of(event), 'state', 'trying', 'lease', token)
  end
  refresh(receiver, tenant)
  return found[1] and
    { event, found[1], found[2], found[3], found[4], found[5], found[6] or '' }
end

local claimed = {}
while #claimed < most and #candidates > 0 do
  local index = fewest()
  local candidate = candidates[index]
  local receiver = redis.call('ZRANGEBYSCORE', ready_of(pace, candidate.tenant), '-inf', text(now),
    'LIMIT', 0, 1)[1]
  local claim = receiver and take(receiver, candidate.tenant)
  if claim then
    claimed[#claimed + 1] = claim
    candidate.under_way = candidate.under_way + 1
  end
  if not receiver or candidate.under_way >= most_of_tenant then
    table.remove(candidates, index)
  end
end
return claimed
