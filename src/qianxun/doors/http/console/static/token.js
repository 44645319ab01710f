// The token that forms of this page carry. A module by itself: others import it, and it does nothing.
export const token = () => JSON.parse(document.body.getAttribute("hx-headers"))["X-Form-Token"];
