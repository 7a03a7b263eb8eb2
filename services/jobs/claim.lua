-- KEYS: job, idem, gate. ARGV: job, idempotency key or '', fingerprint, accept within ms, 1 for a
-- request that wants to know its price and no more: no job ever comes of its claim; the process
-- that claims, or ''.
local gate = gate_of(KEYS[3])
if gate.shut then
  return gate.shut
end
local job, has_key, fingerprint = ARGV[1], ARGV[2] ~= '', ARGV[3]
local now = now_ms()
local accept_by = text(now + whole(ARGV[4], 'the time to accept within'))

if has_key then
  local held = redis.call('HMGET', KEYS[2],
    'job', 'fingerprint', 'acceptBy', 'accepted', 'response', 'claimedAt', 'owner')
  if held[1] == job then
    -- The reply to this very call was lost on its way.
    return { 'new', held[6], held[3] }
  end
  local live = held[1] and (held[4] == '1' or now < tonumber(held[3]))
  if live and held[2] ~= fingerprint then
    return { 'reused' }
  end
  if live then
    return { 'same', held[1], held[3], held[5] or '', held[4] ~= '1' and held[7] or '' }
  end
end

local forgotten_at = text(tonumber(accept_by) + REFUSAL_KEPT_MS)
if has_key then
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], 'job', job, 'fingerprint', fingerprint,
    'acceptBy', accept_by, 'claimedAt', text(now), 'owner', ARGV[6])
  redis.call('PEXPIREAT', KEYS[2], forgotten_at)
end
redis.call('HSET', KEYS[1], 'acceptBy', accept_by, 'idempotencyKey', ARGV[2],
  'quoteOnly', ARGV[5], 'claimedIn', gate.run)
redis.call('PEXPIREAT', KEYS[1], forgotten_at)
return { 'new', text(now), accept_by }
