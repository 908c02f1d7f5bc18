// @ts-check
/* What the dashboard does in a browser beyond HTML. Every page works without it. Rule: docs/behaviour/dashboard.md. */

const root = document.body.dataset.root ?? ''

/** A browser may keep nothing for a page, and says so by a throw. */
const kept = {
  /** @param {string} name */
  get(name) {
    try {
      return localStorage.getItem(`integrations.${name}`)
    } catch {
      return null
    }
  },
  /** @param {string} name @param {string} value */
  set(name, value) {
    try {
      localStorage.setItem(`integrations.${name}`, value)
    } catch {}
  },
}

/** @template {Element} [E=HTMLElement] @param {string} selector @param {ParentNode} [within] @returns {E[]} */
const all = (selector, within = document) => /** @type {E[]} */ ([...within.querySelectorAll(selector)])

/** @param {string} text @param {() => void} act @returns {HTMLButtonElement} */
function button(text, act) {
  const made = document.createElement('button')
  made.type = 'button'
  made.textContent = text
  made.addEventListener('click', act)
  return made
}

// -- Times: UTC or local, exact and relative --

let isLocal = kept.get('times') === 'local'
const UNITS = /** @type {const} */ ([
  ['day', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
])

/** As the server says it. @param {Date} at */
function distance(at) {
  const seconds = Math.round((at.getTime() - Date.now()) / 1_000)
  const length = Math.abs(seconds)
  if (length < 1) return 'now'
  const [unit, size] = UNITS.find(([, size]) => length >= size) ?? ['s', 1]
  const count = Math.floor(length / size)
  const text = `${count} ${unit === 'day' && count > 1 ? 'days' : unit}`
  return seconds < 0 ? `${text} ago` : `in ${text}`
}

/** @param {Date} at */
function localText(at) {
  const shifted = new Date(at.getTime() - at.getTimezoneOffset() * 60_000)
  return shifted.toISOString().slice(0, 19).replace('T', ' ')
}

function showTimes() {
  for (const element of all('time[datetime]')) {
    const at = new Date(element.getAttribute('datetime') ?? '')
    if (Number.isNaN(at.getTime())) continue
    const utc = at.toISOString().slice(0, 19).replace('T', ' ')
    element.textContent = isLocal ? localText(at) : utc
    element.title = isLocal ? `${utc} UTC` : `${localText(at)} local`
    const ago = element.nextElementSibling
    if (ago?.classList.contains('ago')) ago.textContent = distance(at)
  }
  for (const element of all('caption')) {
    const [from, to] = isLocal ? ['Times are UTC', 'Times are local'] : ['Times are local', 'Times are UTC']
    const { textContent } = element
    if (textContent?.includes(from)) element.textContent = textContent.replace(from, to)
  }
}

// -- Copying --

function addCopyButtons() {
  for (const pre of all('pre[data-copy]')) {
    if (pre.nextElementSibling?.hasAttribute('data-added')) continue
    const copy = button('Copy', async () => {
      await navigator.clipboard.writeText(pre.textContent ?? '').then(
        () => (copy.textContent = 'Copied'),
        () => (copy.textContent = 'Not allowed'),
      )
      setTimeout(() => (copy.textContent = 'Copy'), 2_000)
    })
    copy.setAttribute('aria-label', `Copy: ${pre.getAttribute('aria-label') ?? 'text'}`)
    copy.dataset.added = ''
    pre.after(copy)
  }
  // Their text was taken away by a new look at the page.
  for (const copy of all('[data-added]')) if (!copy.previousElementSibling?.matches('pre[data-copy]')) copy.remove()
}

const main = /** @type {HTMLElement} */ (document.querySelector('main'))

// -- Keys --

const PLACES = {
  h: '',
  c: '/charts',
  i: '/integrations',
  w: '/webhooks',
  s: '/sync-runs',
  t: '/sync-items',
  r: '/requests',
  n: '/incidents',
  f: '/failures',
  d: '/doctor',
  e: '/events',
  a: '/audit',
  k: '/console',
}
const KEYS = [
  ['?', 'these keys'],
  ['/', 'search'],
  ['j and k', 'the next and the previous row'],
  ['Enter', 'open it'],
  ['.', 'pause or go on with live'],
  ['u', 'times in UTC or local'],
  ...Object.entries(PLACES).map(([key, path]) => [`g ${key}`, path === '' ? 'home' : path.slice(1).replace('-', ' ')]),
]
let areKeysOn = kept.get('keys') !== 'off'
let wasG = 0

const help = document.createElement('dialog')
help.setAttribute('aria-labelledby', 'keys-title')
const title = document.createElement('h2')
title.id = 'keys-title'
title.textContent = 'Keys'
const list = document.createElement('dl')
list.className = 'facts'
for (const [key, text] of KEYS) {
  const [term, what] = [document.createElement('dt'), document.createElement('dd')]
  term.append(Object.assign(document.createElement('kbd'), { textContent: key }))
  what.textContent = text ?? ''
  list.append(term, what)
}
const label = document.createElement('label')
label.className = 'check'
const box = Object.assign(document.createElement('input'), { type: 'checkbox', checked: areKeysOn })
box.addEventListener('change', () => {
  areKeysOn = box.checked
  kept.set('keys', areKeysOn ? 'on' : 'off')
})
label.append(box, ' Single keys are on')
help.append(
  title,
  list,
  label,
  button('Close', () => help.close()),
)
document.body.append(help)

/** @param {1 | -1} step */
function toRow(step) {
  const links = all('tbody tr', main).flatMap((row) => row.querySelector('a[href]') ?? [])
  const at = links.findIndex(
    (link) => link === document.activeElement || link.closest('tr')?.contains(document.activeElement),
  )
  const link = links[at < 0 ? (step === 1 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1)]
  if (link instanceof HTMLElement) link.focus()
}

/** @type {Record<string, () => void>} */
const ACTS = {
  '?': () => (help.open ? help.close() : help.showModal()),
  '/': () => /** @type {HTMLElement | null} */ (document.querySelector('.search input'))?.focus(),
  j: () => toRow(1),
  k: () => toRow(-1),
  u: () => times.click(),
}

document.addEventListener('keydown', (event) => {
  const { key, target } = event
  const isTyping = target instanceof HTMLElement && target.matches('input:not([type=checkbox]), textarea, select')
  if (!areKeysOn || isTyping || event.ctrlKey || event.metaKey || event.altKey || (help.open && key !== '?')) return
  if (Date.now() - wasG < 1_500 && key in PLACES) {
    location.assign(root + PLACES[/** @type {keyof typeof PLACES} */ (key)])
    return
  }
  wasG = key === 'g' ? Date.now() : 0
  const act = ACTS[key]
  if (act === undefined) return
  event.preventDefault()
  act()
})

// -- The frame --

const times = button('', () => {
  isLocal = !isLocal
  kept.set('times', isLocal ? 'local' : 'utc')
  dress()
})

function dress() {
  times.textContent = isLocal ? 'Times: local' : 'Times: UTC'
  showTimes()
  addCopyButtons()
}

document.querySelector('[data-switches]')?.append(
  times,
  button('Keys', () => help.showModal()),
)
const menu = document.querySelector('details.menu')
const phone = matchMedia('(max-width: 48rem)')
const fold = () => menu?.toggleAttribute('open', !phone.matches)
phone.addEventListener('change', fold)
fold()

// A second click sends nothing. A page that comes out of the browser's cache may be sent again.
document.addEventListener('submit', (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target)
  if (form.method !== 'post') return
  if (form.dataset.sent !== undefined) event.preventDefault()
  form.dataset.sent = ''
})
addEventListener('pageshow', () => {
  for (const form of all('form[data-sent]')) delete form.dataset.sent
})

dress()
setInterval(showTimes, 10_000)
