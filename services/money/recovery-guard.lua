-- The gate before every script that moves money, or on whose answer a message is given up. A Redis
-- that was started anew may lack its last movements, or all of them: until ledger has compared a
-- tenant with the journal, and written down the id of this very run of the server, nothing moves.

-- The id of this run of the server and its time, which is the only clock of money: only the server
-- itself can tell both, as a proxy may keep connections over a restart.
local server

local function this_server()
  if not server then
    local info = redis.call('INFO', 'server')
    local micros = tonumber(string.match(info, 'server_time_usec:(%d+)'))
    server = { run = string.match(info, 'run_id:(%x+)'), ms = math.floor(micros / 1000) }
  end
  return server
end

local function run_id()
  return this_server().run
end

local function now_ms()
  return this_server().ms
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
