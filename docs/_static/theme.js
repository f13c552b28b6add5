// As the theme has it within each page. It runs before the page is shown.
try {
  document.body.dataset.theme = localStorage.getItem("theme") || "auto";
} catch {
  document.body.dataset.theme = "auto"; // a browser that keeps nothing for this page
}
