/** Sends signed deliveries over connections that stay open. */
import { Pool } from 'undici'
import type { SignedDelivery } from './delivery.ts'

export interface Sender {
  /** @throws when the answer is no 200 that says `queued` */
  send(path: string, delivery: SignedDelivery): Promise<void>
  close(): Promise<void>
}

export function createSender(port: number, connections: number): Sender {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections, keepAliveTimeout: 600_000 })
  return {
    async send(path, { body, headers }) {
      const answer = await pool.request({ path, method: 'POST', headers, body })
      const text = await answer.body.text()
      if (answer.statusCode !== 200 || !text.includes('queued')) throw new Error(`HTTP ${answer.statusCode}: ${text}`)
    },
    close: () => pool.close(),
  }
}
