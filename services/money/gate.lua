-- The gate before every script that moves money, or on whose answer a message is given up. A Redis
-- that was started anew may lack its last movements, or all of them: until ledger has compared a
-- tenant with the journal, and written down the id of this very run of the server, nothing moves.

local function run_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

-- What keeps the gate shut, as a reply, or nothing; why the wallet is frozen, if it is; and this
-- run of the server.
local function gate_of(key)
  local found = redis.call('HMGET', key, 'run', 'frozen')
  local run = run_id()
  if found[1] ~= run then
    return { shut = redis.error_reply('RECOVERING the wallet is compared with the journal') }
  end
  return { frozen = found[2], run = run }
end

-- The reply of a movement that the gate does not let through, or nothing.
local function stopped_by(key)
  local gate = gate_of(key)
  return gate.shut or gate.frozen and redis.error_reply('FROZEN ' .. gate.frozen)
end
