import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { createDemoPartner } from '../../../services/admin/demo.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'
import { root } from '../sources.ts'
import { startEnvironment, type Environment } from '../stacks/environment.ts'
import { newFolder } from '../folder.ts'
import { addressesIn } from '../workspace.ts'

type Ran = { readonly status: number, readonly out: string, readonly errors: string }

export type GuideEnvironment = Awaited<ReturnType<typeof startGuideEnvironment>>

/** What a clone has at its top that commands need. */
const PARTS = [
  'package.json', 'package-lock.json', 'node_modules', 'deploy', 'services', 'schemas', 'test',
  'README.md', 'tsconfig.json',
]

/** As spreadsheets of half of Europe write it: mark, semicolons, CRLF, line breaks in cells. */
const CONTACTS = '\ufeffFirma;phone;Bemerkung\r\n' +
  '"Müller & Söhne; Berlin";+49 30 901820;"ruft gern an;\r\nnur vormittags"\r\n' +
  '"Jörg ""Jogi"" Weiß";(212) 736-5000;\r\nKühne;+442079460958;mobil\r\nAmt;unbekannt;\r\n'

/**
 * All services with an organization that has money, and a folder like a clone in which
 * `npm start` runs: its `.local` describes these services.
 */
export async function startGuideEnvironment () {
  const folder = newFolder('verification-jobs-guides-')
  for (const part of PARTS) symlinkSync(join(root, part), join(folder, part))
  const environment = await startEnvironment()
  const feed = await createDemoPartner(environment.env, environment.orgId)
  const webhookSecret = await withWorkspace(environment.env, ({ webhookSecrets }) =>
    webhookSecrets.show(environment.orgId))
  writeStack(folder, environment, { feed, webhookSecret })
  const { id: job } = await environment.live.createJob({
    service: 'phone-validation', inputs: ['+12127365000'], webhook_url: 'https://hooks.example/',
  })
  await environment.live.waitForEnd(job)
  return {
    environment,
    /** A job that has ended. */
    job,
    /** The folder in which commands are run: a clone to the one who types. */
    folder,
    shell: shellIn(folder),
    stop: environment.stop,
  }
}

function writeStack (
  folder: string, { env, baseUrl, keys, orgId }: Environment, more: object
): void {
  mkdirSync(join(folder, '.local'))
  const state = {
    baseUrl,
    keys,
    orgId,
    ...more,
    ...addressesIn(env),
    pageUrl: 'http://127.0.0.1:8090',
  }
  writeFileSync(join(folder, '.local/stack.json'), JSON.stringify(state))
  writeFileSync(join(folder, '.local/secrets.json'), JSON.stringify(env))
  writeFileSync(join(folder, 'contacts.csv'), CONTACTS)
  writeFileSync(join(folder, 'entries.csv'), 'entry,list\njane@example.com,suppress\n')
}

/**
 * Runs a script of the shell there. Only what every shell has is given, `env`, and where Node keeps
 * what it compiled, as for every npm script: commands find all else in the folder, as for a person.
 */
const shellIn = (folder: string) => async (
  script: string, env: Readonly<Record<string, string>> = {}
): Promise<Ran> => {
  const child = spawn('sh', ['-c', script], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 400_000,
    env: {
      PATH: `${dirname(process.execPath)}:${process.env['PATH']}`,
      HOME: process.env['HOME'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      npm_config_loglevel: 'silent',
      ...env,
    },
  })
  const exited = once(child, 'exit')
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { status: Number((await exited)[0]), out, errors }
}

/** Replaces placeholders by the names of this run. */
export function filled (commands: string, { environment, job }: GuideEnvironment): string {
  const partner = `acme-${randomBytes(4).toString('hex')}`
  return commands.replaceAll('ORG_ID', environment.orgId).replaceAll('JOB_ID', job)
    .replaceAll('--name acme', `--name ${partner}`)
    // Readers have files of their own, which are odder than the sample.
    .replaceAll('deploy/sample/phones.csv', 'contacts.csv')
    // No user is here to confirm the price.
    .replaceAll(/^npm run (submit|feed -- send) .*$/gm, '$& --yes')
}
