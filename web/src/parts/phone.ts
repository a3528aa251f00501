// Whether the window is as narrow as a phone: lists become cards then.
import { Store, useStore } from '../state/store'

const narrow = window.matchMedia('(max-width: 760px)')
const phone = new Store(narrow.matches)
narrow.addEventListener('change', () => phone.set(narrow.matches))

export function usePhone(): boolean {
  return useStore(phone)
}
