-- KEYS: leases. ARGV: pace, at most so many, lease ms, token. Takes deliveries that are due, those
-- first whose lease ran out because whoever had them is gone.
local pace, most, token = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local now = now_ms()
local EXPIRED_AT_ONCE = 100

for _, event in ipairs(
  redis.call('ZRANGEBYSCORE', LEASES, '-inf', text(now), 'LIMIT', 0, EXPIRED_AT_ONCE)) do
  local receiver = redis.call('HGET', delivery_of(event), 'receiver')
  redis.call('ZREM', LEASES, event)
  if receiver then
    let_go(event, receiver)
    enqueue(event, receiver, now)
  end
end

local claimed = {}
while #claimed < most do
  local receiver = redis.call('ZRANGEBYSCORE', READY[pace], '-inf', text(now), 'LIMIT', 0, 1)[1]
  if not receiver then
    break
  end
  local event = redis.call('ZRANGE', queue_of(receiver), 0, 0)[1]
  redis.call('ZREM', queue_of(receiver), event)
  redis.call('ZREM', WAITING, event)
  local found = redis.call('HMGET', delivery_of(event), 'tenant', 'job', 'type', 'attempts', 'once')
  if found[1] then
    redis.call('SADD', busy_of(receiver), event)
    redis.call('ZADD', LEASES, text(now + tonumber(ARGV[3])), event)
    redis.call('HSET', delivery_of(event), 'state', 'trying', 'lease', token)
    claimed[#claimed + 1] = { event, found[1], found[2], found[3], found[4], found[5] }
  end
  refresh(receiver)
end
return claimed
