/**
 * The variables that stand for no key and no option. From here come their checks and docs/configuration.md.
 * Rule: docs/behaviour/configuration.md, "Options".
 */

import type { ValueKind } from './value-kinds.ts'
import { oneOf } from './value-kinds.ts'

export interface Variable {
  readonly default: string
  readonly meaning: string
  /** What is allowed; null where somebody else checks it, or nothing can be wrong. */
  readonly kind: ValueKind<string> | null
}

export const VARIABLES: Readonly<Record<string, Variable>> = {
  INTEGRATIONS_ENCRYPTION_KEYS_FILE: {
    default: '',
    meaning: 'path of a file with the encryption keys, in place of `INTEGRATIONS_ENCRYPTION_KEYS`; not both',
    kind: null,
  },
  INTEGRATIONS_CONFIG: {
    default: '`integrations.config.ts`, `.js` or `.mjs` in the working directory',
    meaning: "path of the host's module, for API, worker and the command line",
    kind: null,
  },
  NODE_ENV: { default: '', meaning: '`production` refuses the option `dev`', kind: null },
  HOST: { default: '`127.0.0.1`', meaning: 'address on which the API process listens', kind: null },
  PORT: {
    default: '`3000`',
    meaning: 'port on which the API process listens, from 0 (a free one) to 65535',
    kind: null,
  },
  LOG_LEVEL: {
    default: '`info`; `warn` for the command line',
    meaning: 'from which level up the built-in logger writes',
    kind: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
  },
  LOG_STREAM: {
    default: '`stdout`; `stderr` for the command line',
    meaning: 'where the built-in logger writes',
    kind: oneOf('stdout', 'stderr'),
  },
}
