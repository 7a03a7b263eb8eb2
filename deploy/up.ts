import { Command, Option } from 'commander'
import { resolve } from 'node:path'
import { parseTopicPartitions } from '../services/runtime/platform/topics.ts'
import { makeSecure } from './local/access.ts'
import { bringUp } from './local/launcher/client.ts'
import { refuseSecretsOf } from './local/launcher/secrets.ts'
import { parseScale, warnOfIdle } from './local/launcher/scale.ts'
import { processesOption, SERVICES, type Processes } from './local/launcher/layout.ts'

type Options = {
  data: string, scale?: string, secure?: boolean, processes?: string, restart?: string,
}

const { data, scale, secure, processes, restart } = new Command('up')
  .description('Starts the stack and the services in the background and waits until all are ' +
    'ready. Run again, it starts what is not running and leaves the rest alone.')
  .option('--scale <list>', 'instances of stages, for example normalize=2,verify=3; ' +
    'a stage that is not named runs once; without the option the present numbers stay')
  .addOption(processesOption())
  .addOption(new Option('--restart <service>', 'end the processes that run a service, with all ' +
    'services of these processes, and start them again').choices(SERVICES))
  .option('--data <folder>', 'folder for data, logs and state', '.local')
  .option('--secure', 'with TLS, users and passwords everywhere; a new folder stays like this')
  .addHelpText('after', '\nAddresses, keys and pids are then in <folder>/stack.json. ' +
    '"npm run down" ends everything.')
  .parse()
  .opts<Options>()

try {
  const wanted = {
    ...scale !== undefined && { scale: parseScale(scale, SERVICES) },
    ...processes !== undefined && { processes: Number(processes) as Processes },
    restart,
  }
  const partitions = parseTopicPartitions(process.env['TOPIC_PARTITIONS'] ?? '')
  for (const line of warnOfIdle(wanted.scale ?? {}, partitions)) console.error(line)
  refuseSecretsOf(process.env, resolve(data))
  if (secure === true) makeSecure(resolve(data))
  await bringUp(resolve(data), wanted, (line) => console.log(line))
  console.log(`addresses and keys: ${resolve(data)}/stack.json`)
  if (secure === true) {
    console.log('before commands by hand: ' +
      `export NODE_EXTRA_CA_CERTS=${resolve(data)}/access/authority.pem`)
  }
} catch (error) {
  console.error(`up: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
