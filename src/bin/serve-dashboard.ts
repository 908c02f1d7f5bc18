/** The dashboard alone: for the command of this name. It asks Postgres, and Temporal only where an act or a page needs it. */
import type { Server } from 'node:http'
import { serve } from '@hono/node-server'
import { dashboardApp } from '../api/dashboard-app.ts'
import type { ServeDashboard } from '../commands/command.ts'
import { Refused } from '../commands/refused.ts'

export const serveDashboard: ServeDashboard = (integrations, { host, port, token, signal, onReady }) =>
  new Promise((resolve, reject) => {
    let app: ReturnType<typeof dashboardApp> | undefined
    let url = ''
    const server = serve(
      {
        fetch: (request, env) => app?.fetch(request, env) ?? new Response(null, { status: 503 }),
        hostname: host,
        port,
      },
      (info) => {
        url = `http://${host.includes(':') ? `[${host}]` : host}:${info.port}`
        app = dashboardApp(integrations, { token, signal })
        onReady(`${url}${app.root}`, `${url}${app.login}`)
      },
    ) as Server
    server.on('error', (error) =>
      reject(
        new Refused(
          'not_listening',
          `The dashboard can't listen on ${host}:${port}: ${error.message}. Give another --port.`,
        ),
      ),
    )
    const end = (): void => {
      server.close(() => resolve(url))
      server.closeAllConnections()
    }
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
  })
