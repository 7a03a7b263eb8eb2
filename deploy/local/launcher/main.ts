import { Command } from 'commander'
import { mkdirSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { becomeOnly, serveControl, toSocketPath } from './control.ts'
import { prepareStack } from './prepare.ts'
import { SERVICES } from './layout.ts'
import { writePrivately } from '../json-file.ts'
import { supervisorFile } from './state.ts'
import { createSupervisor } from './supervisor.ts'

// The supervisor in the background: `up` starts it, and both `up` and `down` talk to it.
const options = new Command('supervisor')
  .description('Keeps a local stack and its services running. Started by "up".')
  .requiredOption('--data <folder>', 'folder for data, logs and state')
  .parse()
  .opts<{ data: string }>()

const dataDir = resolve(options.data)
if (!await becomeOnly(dataDir)) {
  console.log('another supervisor of this folder is running')
  process.exit(0)
}
mkdirSync(dataDir, { recursive: true })
writePrivately(supervisorFile(dataDir), { pid: process.pid })

const supervisor = createSupervisor({ dataDir, stages: SERVICES, prepare: prepareStack })

const leave = () => {
  rmSync(toSocketPath(dataDir), { force: true })
  process.exit(0)
}

await serveControl(dataDir, supervisor, leave)
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => { supervisor.down().then(leave, leave) })
}
