import { fork } from 'node:child_process'
import { once } from 'node:events'
import { endChild } from '../stacks/processes.ts'
import { freePort } from '../../../deploy/local/ports.ts'

const SECRET = 'a secret of the tests'

/** The login of an account at the provider, with an address. */
export const loginOf = (account: string, email: string) => `${account}|${email}`

/**
 * A place for a provider. The page needs the issuer when it starts, and the provider the address of
 * the page, so it is started later.
 */
export async function reserveProvider () {
  const port = await freePort()
  const issuer = `http://localhost:${port}`
  return {
    /** The settings of the page for it. */
    settings: { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: 'page', OIDC_CLIENT_SECRET: SECRET },

    /** Starts the provider as a process of its own. */
    start: async (pageUrl: string) => {
      const program = new URL('../../../deploy/openid-provider.ts', import.meta.url)
      const args = ['--port', String(port), '--secret', SECRET, '--page', pageUrl]
      const child = fork(program, args, { execArgv: [], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
      const output: string[] = []
      for (const stream of [child.stdout, child.stderr]) {
        stream?.on('data', chunk => { output.push(String(chunk)) })
      }
      await Promise.race([once(child, 'message'), once(child, 'exit').then(([code]) => {
        throw new Error(`the OpenID provider ended with ${code}`)
      })])
      return {
        /** What a person sees at the terminal. */
        output: () => output.join(''),
        stop: () => endChild(child),
      }
    },
  }
}
