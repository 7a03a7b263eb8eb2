import { fork } from 'node:child_process'
import { once } from 'node:events'
import { freePort } from '../../deploy/local/ports.ts'

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
    settings: {
      OIDC_ISSUER: issuer, OIDC_CLIENT_ID: 'page', OIDC_CLIENT_SECRET: SECRET,
    },

    /** Starts the provider as a process of its own; the answer ends it. */
    start: async (pageUrl: string): Promise<() => Promise<void>> => {
      const program = new URL('../../deploy/openid-provider.ts', import.meta.url)
      const args = ['--port', String(port), '--secret', SECRET, '--page', pageUrl]
      const child = fork(program, args, {
        execArgv: [], stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      })
      await Promise.race([once(child, 'message'), once(child, 'exit').then(([code]) => {
        throw new Error(`the OpenID provider ended with ${code}`)
      })])
      return async () => {
        if (child.exitCode !== null) return
        child.kill('SIGKILL')
        await once(child, 'exit')
      }
    },
  }
}
