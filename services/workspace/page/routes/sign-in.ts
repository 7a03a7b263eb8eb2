import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { field, type PageParts } from '../context.ts'
import { cookieName, sessionIdIn, visitorOf } from '../guard.ts'
import type { Html } from '../html.ts'
import { noticeIn } from '../notices.ts'
import type { Holder } from '../sign-in-codes.ts'
import { confirmSignInView, signInView } from '../views/sign-in.ts'

/** Answers with a page. */
export function sendPage (reply: FastifyReply, page: Html): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(page.html)
}

/** The way in and out. */
export function signInRoutes (parts: PageParts): readonly RouteOptions[] {
  return [
    {
      method: 'GET',
      url: '/',
      handler: async (request, reply) => {
        const visitor = await visitorOf(parts, request)
        return reply.redirect(visitor ? startOf(visitor.session.holder) : '/sign-in', 303)
      },
    },
    {
      method: 'GET',
      url: '/sign-in',
      handler: (request, reply) => sendPage(reply, signInView(noticeIn(request))),
    },
    {
      method: 'GET',
      url: '/sign-in/link',
      handler: (_request, reply) => sendPage(reply, confirmSignInView()),
    },
    { method: 'POST', url: '/sign-in', handler: (request, reply) => signIn(parts, request, reply) },
    {
      method: 'POST',
      url: '/sign-out',
      config: { access: 'anybody' },
      handler: (request, reply) => signOut(parts, request, reply),
    },
  ]
}

async function signIn (
  parts: PageParts, request: FastifyRequest, reply: FastifyReply
): Promise<FastifyReply> {
  const holder = await parts.signInCodes.redeem(field(request, 'code'))
  if (holder === undefined) return reply.redirect('/sign-in?notice=link-spent', 303)
  // Whoever used this browser before is signed out with it.
  await parts.sessions.end(sessionIdIn(request))
  const { id } = await parts.sessions.begin(holder)
  const { isHttps } = request
  reply.setCookie(cookieName(isHttps), id, {
    httpOnly: true, sameSite: 'strict', secure: isHttps, path: '/',
  })
  return reply.redirect(startOf(holder), 303)
}

async function signOut (
  parts: PageParts, request: FastifyRequest, reply: FastifyReply
): Promise<FastifyReply> {
  await parts.sessions.end(sessionIdIn(request))
  for (const isHttps of [true, false]) {
    reply.clearCookie(cookieName(isHttps), { path: '/', secure: isHttps })
  }
  return reply.redirect('/sign-in?notice=left', 303)
}

function startOf (holder: Holder): string {
  return holder.kind === 'operator' ? '/pipeline' : '/live/overview'
}
