-- The gate before every script that moves money, or on whose answer a message is given up. A Redis
-- that was started anew may lack its last movements, or all of them: until ledger has compared a
-- tenant with the journal, and written the id of this very run of the server to its wallet, nothing
-- moves.

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

-- The one wallet of a script is read once: nobody else changes it meanwhile.
local wallet

local function wallet_of(key)
  if not wallet then
    local found = redis.call('HMGET', key, 'run', 'frozen', 'available', 'reserved', 'charged',
      'funded', 'seq', 'slots')
    wallet = {
      run = found[1],
      frozen = found[2],
      available = found[3] or '0',
      reserved = found[4] or '0',
      charged = found[5] or '0',
      funded = found[6] or '0',
      seq = found[7] or '0',
      slots = found[8] or '0',
    }
  end
  return wallet
end

-- What keeps the gate shut, as a reply, or nothing; why the wallet is frozen, if it is; and this
-- run of the server.
local function gate_of(key)
  local found, run = wallet_of(key), run_id()
  if found.run ~= run then
    return { shut = redis.error_reply('RECOVERING the wallet is compared with the journal') }
  end
  return { frozen = found.frozen, run = run }
end

-- The reply of a movement that the gate does not let through, or nothing.
local function stopped_by(key)
  local gate = gate_of(key)
  return gate.shut or gate.frozen and redis.error_reply('FROZEN ' .. gate.frozen)
end
