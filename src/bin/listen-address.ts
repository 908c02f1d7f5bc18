import { MAX_PORT } from '../config/value-kinds.ts'
import { InvalidConfiguration } from '../framework/errors.ts'

const DEFAULT_HOST = '127.0.0.1'
const DEFAULT_PORT = 3000

/** Where the API listens: HOST (default loopback) and PORT (default 3000; 0: a free one). @throws InvalidConfiguration */
export function address(environment: NodeJS.ProcessEnv): { hostname: string; port: number } {
  const text = environment.PORT || String(DEFAULT_PORT)
  const port = Number(text)
  if (!/^\d{1,5}$/.test(text) || port > MAX_PORT)
    throw new InvalidConfiguration([
      { key: 'PORT', expected: `an integer from 0 to ${MAX_PORT}`, received: JSON.stringify(text) },
    ])
  return { hostname: environment.HOST || DEFAULT_HOST, port }
}
