import { request as forward } from 'node:http'
import { createServer, type Server } from 'node:https'

/** What a ClickHouse of production has in addition: TLS, and an answer for its user alone. */
export function createSecureFront (
  target: URL, account: { readonly username: string, readonly password: string },
  certificate: { readonly cert: string, readonly key: string }
): Server {
  const { username, password } = account
  const wanted = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  return createServer(certificate, (request, response) => {
    const { authorization, ...headers } = request.headers
    if (authorization !== wanted) {
      response.writeHead(403, { 'x-clickhouse-exception-code': '516' }).end(
        'Code: 516. DB::Exception: user: Authentication failed: password is incorrect, or there ' +
        'is no user with such name. (AUTHENTICATION_FAILED) (version 25.3.1.1)')
      return
    }
    const { method, url } = request
    const asking = forward(target, { method, path: url, headers }, answer => {
      answer.pipe(response.writeHead(answer.statusCode ?? 502, answer.headers))
    })
    asking.on('error', () => response.destroy())
    request.pipe(asking)
  })
}
